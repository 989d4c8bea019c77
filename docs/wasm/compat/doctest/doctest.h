#pragma once
// doctest takes WASI for a system without exceptions; without threads, signals and debuggers it is.

#include <cmath>
#include <sstream>

#define DOCTEST_CONFIG_NO_MULTITHREADING
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#define DOCTEST_IS_DEBUGGER_ACTIVE() false
#define DOCTEST_BREAK_INTO_DEBUGGER() static_cast<void>(0)
#pragma push_macro("__wasi__")
#undef __wasi__
#include_next <doctest/doctest.h>
#pragma pop_macro("__wasi__")
