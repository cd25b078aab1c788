"""Proxies of objects in a vault: a proxy has the spec of an object and no values.

A session process runs calls on proxies to know what the same calls do in the vault. Not here: the vault (`vault`).
"""
