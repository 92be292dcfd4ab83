#!/bin/sh
# run.sh PROGRAM SOURCE_DIR: the example must print the text that the echo pipeline sends back, say what is
# wrong with a missing file, and stand in the README as it is compiled.
set -eu
said=$("$1" "$2/deploy/echo.yaml" "ping pong")
case $said in
  *"ping pong"*) ;;
  *) echo "expected the text back, got: $said" && exit 1 ;;
esac
if error=$("$1" "$2/deploy/none.yaml" "ping" 2>&1); then
  echo "a missing deploy file was accepted" && exit 1
fi
case $error in
  *none.yaml*) ;;
  *) echo "the error does not name the file: $error" && exit 1 ;;
esac
sed -n '/^```c$/,/^```$/p' "$2/README.md" | sed '1d;$d' | diff - "$2/examples/ask.c"
