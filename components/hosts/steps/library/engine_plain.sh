# Empty functions for engines whose configuration files are all that must change.

before_files() { :; }
after_start() { :; }
files_back() { :; }
settled() { :; }
engine_off() { :; }
