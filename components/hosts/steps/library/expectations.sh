# What must be found later, besides the files that were placed.

# expect KIND WORDS: what the probe must find while this phase holds, besides the files that it
# placed. For each kind there is a function found_<kind>, beside the step that expects it, which the
# probe calls with the words; it may say in `drifted` what a person is told. A function list_<kind>,
# where there is one, is called before with the first words of all lines of that kind. They stand at the
# end of the file, after the line that says so: that part goes to the probe too.
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
