"""What holds for every test."""

import signal

from hypothesis import settings

# A slow machine is not a failing test.
settings.register_profile("pinfold", deadline=None)
settings.load_profile("pinfold")

# Tests that are started with `&` or nohup ignore these, and so would what they start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
