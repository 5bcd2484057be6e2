"""Names of objects that Cloud Storage allows and that a load job can name."""

NAMES = [
    "with space", "quote'", 'double"quote', "hash#1", "percent%20", "plus+", "question?", "bracket[0]", "brace{a,b}",
    "back\\slash", "Ünïcödé 日本 🚲", "semi;colon", "comma,", "a=b", "amp&", "tilde~", "dollar$x", "pipe|", "<tag>",
    "colon:1",
]  # fmt: skip
