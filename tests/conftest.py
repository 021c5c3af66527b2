"""What holds for every test."""

from hypothesis import settings

# A slow machine is not a failing test.
settings.register_profile("pinfold", deadline=None)
settings.load_profile("pinfold")
