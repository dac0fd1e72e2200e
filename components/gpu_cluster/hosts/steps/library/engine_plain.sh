# Empty functions for engines that need nothing besides their configuration files.

before_files() { :; }
after_start() { :; }
files_back() { :; }
settled() { :; }
engine_off() { :; }
