def get_assert(output, context):
    return True
