# JSON as text: nothing is converted, so numbers, escapes and the order of keys stay as they are.
# Source: RFC 8259.

# --- found later: the probe has this part too ---

# json_lines FILE: prints the JSON value in a file with one value per line and four spaces per
# level; fails if there is none. Of a key that comes twice, the last value counts, as in Go's
# encoding/json.
json_lines() {
    LC_ALL=C awk '
        function bad(what) {
            printf "%s at character %d\n", what, at >"/dev/stderr"
            failed = 1
            exit 1
        }
        function skip() { while (index(" \t\r\n", substr(text, at, 1)) && at <= size) at++ }
        # token: returns the string, number or word at the current position, unchanged.
        function token(   from, letter) {
            from = at
            if (substr(text, at, 1) == "\"") {
                for (at++; (letter = substr(text, at, 1)) != "\""; at++) {
                    if (letter == "\\") at++
                    if (letter < " " || at > size) bad("a string without an end")
                }
                at++
                return substr(text, from, at - from)
            }
            while (at <= size && substr(text, at, 1) ~ /[-+.0-9A-Za-z]/) at++
            letter = substr(text, from, at - from)
            if (letter !~ /^(true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?)$/) {
                at = from
                bad("no value")
            }
            return letter
        }
        # value INDENT: returns the lines of the value at the current position.
        function value(indent,   open, key, out, item, count, n, keys, values, place) {
            if (length(indent) > 400) bad("more than 100 levels")
            skip()
            open = substr(text, at, 1)
            if (open != "{" && open != "[") return token()
            at++
            skip()
            while (substr(text, at, 1) != (open == "{" ? "}" : "]")) {
                if (count) {
                    if (substr(text, at, 1) != ",") bad("no comma")
                    at++
                    skip()
                }
                if (open == "{") {
                    if (substr(text, at, 1) != "\"") bad("no key")
                    key = token()
                    skip()
                    if (substr(text, at++, 1) != ":") bad("no colon")
                } else key = count
                item = value(indent "    ")
                n = key in place ? place[key] : (place[key] = ++count)
                keys[n] = key
                values[n] = item
                if (!count) count = 1
                skip()
            }
            at++
            if (!count) return open == "{" ? "{}" : "[]"
            for (n = 1; n <= count; n++)
                out = out (n > 1 ? "," : "") "\n" indent "    " (open == "{" ? keys[n] ": " : "") values[n]
            return open out "\n" indent (open == "{" ? "}" : "]")
        }
        { text = text $0 "\n" }
        END {
            if (failed) exit 1
            size = length(text)
            at = 1
            out = value("")
            skip()
            if (at <= size) bad("more than one value")
            print out
        }' "$1"
}

# json_paths: prints each value of standard input, which json_lines has written, as `key.key value`.
json_paths() {
    LC_ALL=C awk '
        {
            match($0, /^ */)
            depth = RLENGTH / 4
            line = substr($0, RLENGTH + 1)
            sub(/,$/, "", line)
            key = ""
            if (match(line, /^"([^"\\]|\\.)*": /)) {
                key = substr(line, 2, RLENGTH - 4)
                line = substr(line, RLENGTH + 1)
            }
            path[depth] = depth > 1 ? path[depth - 1] "." key : key
            if (line !~ /^([{[]|[]}])$/) print path[depth], line
        }'
}
