"""The long tests: kill processes at every step of a publish, land many markers at once, and query during swaps."""
