"""What users may be called, and where a server may listen."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.exceptions import AccountError, ExposureError
from syft.grid.identity import user_name
from syft.grid.server.settings import check_exposure

# Names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("alice", "alice"),
        ("Alice", "alice"),
        ("a", "a"),
        ("7", "7"),
        ("Dr. Éva Müller", "dr. éva müller"),
        ("E\u0301va", "\u00e9va"),
        ("STRASSE", "strasse"),
        ("ﬁn", "fin"),
        ("Straße", "strasse"),
        ("李雷", "李雷"),
        ("मीरा", "मीरा"),
        ("a.b-c_d+e@f.example", "a.b-c_d+e@f.example"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
    ],
)
def test_a_user_has_one_name(typed, name):
    assert user_name(typed) == name == user_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            ".",
            "..",
            "a/b",
            "a\\b",
            "../etc/passwd",
            "C:",
            "a:b",
            "~root",
            "-rf",
            "a b ",
            " a",
            "a  b",
            "a..b",
            ".a",
        ),
        *(
            "a\x00b",
            "a\nb",
            "a\tb",
            "a\x1b[31m",
            "a\u202eb",
            "a\u200bb",
            "a\u2066b",
            "\ufeffa",
            "a\u00adb",
            "a\u00a0b",
            "a\u3000b",
        ),
        *(
            "a\u3164",
            "a\ufe0f",
            "a\u034fb",
            "a\U000e0101",
            "\u0301a",
            "a\ud800",
            "a\ue000",
            "😀",
            "a%2fb",
            "a'b",
            'a"b',
            "<b>",
            "a;b",
        ),
        *("ａlice", "𝐚lice", "ª", "a\u0332" * 40),
        *("a" * 65, "é" * 65, "a" * 100_000, "ß" * 33, "*", "#a", "a?b", "a|b", "½", "²"),
        *(None, 5, b"alice", ["alice"], True),
    ],
    ids=lambda name: ascii(name)[:20],
)
def test_odd_names_are_refused(name):
    with pytest.raises(AccountError, match="1 to 64 letters and digits") as caught:
        user_name(name)
    assert len(str(caught.value)) < 300


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(categories=["L", "M", "Nd"], include_characters=" ._-@+"), max_size=70))
def test_names_have_one_form(text):
    try:
        name = user_name(text)
    except AccountError:
        return
    assert user_name(name) == name and len(name) <= 64
    assert name == unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", name.casefold())
    assert name.isprintable()
    assert not set(name) & set("/\\:\0") and name not in (".", "..")
    assert user_name(unicodedata.normalize("NFD", name)) == name


# Where a server may listen ---------------------------------------------------------------------------------

LOOPBACK = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127.0.0.1",
    "127.8.9.1",
    "::1",
    "[::1]",
    "::ffff:127.0.0.1",
    "ip6-localhost",
]
OTHERS = [
    "0.0.0.0",  # noqa: S104
    "::",
    "[::]",
    "",
    None,
    "192.168.1.5",
    "10.0.0.1",
    "fe80::1",
    "::ffff:10.0.0.1",
    "::ffff:0.0.0.0",
    "node.example",
]
OTHERS += [
    "0",
    "127.1",
    "2130706433",
    "0x7f000001",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "1.0.0.127",
    "evil\x1b[2J",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_a_server_of_this_machine_may_be_open(host):
    for tls in (False, True):
        for tokens in (False, True):
            check_exposure(host, tls, tokens)


@pytest.mark.parametrize("host", OTHERS)
def test_others_need_tls_and_tokens(host):
    check_exposure(host, True, True)
    for tls, tokens, lacking in (
        (False, True, "no TLS"),
        (True, False, "no tokens"),
        (False, False, "no TLS and no tokens"),
    ):
        with pytest.raises(ExposureError, match=f"{lacking}.*host 127.0.0.1") as caught:
            check_exposure(host, tls, tokens)
        assert str(caught.value).isprintable()
    for truthy in ("no", 1, [0]):
        with pytest.raises(ExposureError):
            check_exposure(host, truthy, truthy)
