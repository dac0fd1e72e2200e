# An engine whose files are all there is to change.

before_files() { :; }
after_start() { :; }
files_back() { :; }
settled() { :; }
engine_off() { :; }
