"""The site's colours and fonts, as variables of the furo theme. Fonts are those of the reader's system."""

_FONTS = {
    "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
    "font-stack--monospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace",
}
LIGHT = {
    **_FONTS,
    "color-brand-primary": "#0b5c5a",
    "color-brand-content": "#0b6e6b",
    "color-brand-visited": "#5b4b8a",
    "color-api-name": "#0b5c5a",
    "color-api-pre-name": "#0b6e6b",
}
DARK = {
    **_FONTS,
    "color-brand-primary": "#63d2c9",
    "color-brand-content": "#63d2c9",
    "color-brand-visited": "#b3a5e0",
    "color-api-name": "#63d2c9",
    "color-api-pre-name": "#63d2c9",
}
