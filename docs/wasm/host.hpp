#pragma once
// The functions that host.mjs provides to the module.

#include <cstddef>

#define FA_HOST(name) extern "C" __attribute__((import_module("host"), import_name(name)))

/// Runs the fiber of fa_current(), and the fibers that it switches to, until one switches to
/// main.
FA_HOST("run_fibers") void host_run_fibers();

/// Called on a fiber after fa_current() has changed. Asyncify saves the fiber's frames, and this
/// returns when another stack has switched back.
FA_HOST("leave_fiber") void host_leave_fiber();

/// Ends the call with an Error. The instance cannot be used afterwards.
FA_HOST("fail") [[noreturn]] void host_fail(const char* text);

/// Ends the fiber without unwinding its frames, and host_run_fibers continues with fa_current().
FA_HOST("abandon_fiber") [[noreturn]] void host_abandon_fiber();

/// Stores a file that the program writes.
FA_HOST("write_file") void host_write_file(const char* path, const char* bytes, size_t count);
