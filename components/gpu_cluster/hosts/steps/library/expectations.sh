# Expectations: values other than placed files that the probe must find later.

# expect KIND WORDS: records a value that the probe must find while this phase is applied. For each
# kind the step's file has a function found_<kind>, which the probe calls with the words; it may set
# `drifted` to the text for a drift. An optional function list_<kind> is called before, with the
# first words of all lines of that kind. These functions are at the end of the file, after the line
# that marks the probe's part.
expect() {
    expected="$expected$*
"
}

expected=

keep_expectations() {
    keep_text expected "$expected"
}

# --- found later: the probe has this part too ---

found_path() {
    [ -e "$root$1" ]
}
