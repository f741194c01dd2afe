#!/bin/sh
echo "$TELL_KEY"
