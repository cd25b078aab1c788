"""The session process: answers one user's messages, with proxies for objects in the user's vault."""
