"""The gate: how programs in a pen reach the hosts they may, by name, and nothing else.

`client_hello`, `socks`, `http_layer`, `dns`, `sniff`, `fake_ips` know no socket and no clock: bytes in,
events out. `gate` and what it calls have the sockets. All these import `model` and `kernel` alone. What a
rule says comes in as a function (`host_decision.Decide`), so the gate knows no settings. `host/` is the
session's side of it.

INVARIANT: the gate looks up no name and sends no packet before the name was allowed; any failure on the way
to an answer counts as no.
"""
