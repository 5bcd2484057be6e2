"""The long tests (the soak): kills at every step of a publish, many markers at once, and queries during swaps."""
