def build(context): return "x"
