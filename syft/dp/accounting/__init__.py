"""Privacy accounting: events, Renyi orders, privacy loss, neighbouring data sets."""
