// The only doctest main, compiled once and linked into every test program. Its first macro alone
// would do nothing where the header is precompiled.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
