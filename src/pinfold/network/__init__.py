"""The gate: how programs in a pen reach the hosts they may, by name, and nothing else.

`tls_hello`, `socks`, `http_layer`, `dns`, `first_bytes`, `stand_ins` know no socket and no clock: bytes in,
events out. `gate` and what it calls are the only ones with sockets. Imports `model` and `kernel`; what a rule
says comes in as a function (`ruling.Decide`), so nothing here knows settings.

INVARIANT: no name is looked up, and no packet sent, before the name was allowed; and whatever goes wrong on
the way to an answer is a no.
"""
