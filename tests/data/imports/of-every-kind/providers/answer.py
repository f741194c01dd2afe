import os

def call_api(prompt, options, context):
    return {"output": os.environ.get("ANSWER", prompt)}
