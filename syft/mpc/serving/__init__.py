"""Encrypted models that clients query: by invitation (`serve`, `query`), or as users of nodes (`server`, `client`).

Both run a `SharedProgram` at each party, and share the client's side in `client_shares`. Plain models are in
`syft.hosting`.
"""
