"""Ways to a GPU that go past the device plugin."""
