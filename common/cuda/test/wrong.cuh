#pragma once
// `wrong`: the file is built with -D WRONG.
#ifdef WRONG
constexpr bool wrong = true;
#else
constexpr bool wrong = false;
#endif
