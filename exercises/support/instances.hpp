#pragma once
// Instances that each test would otherwise make, in a quarter of the time that they take to
// compile. Precompiled with the tests' headers, while instances.cpp has the code. (Where no type is
// our own, the standard does not promise that this works, but with GCC and Clang it does.)

#include <string>
#include <vector>

#include "exercises/support/verdict.hpp"

#ifndef EXERCISE_INSTANCE
#define EXERCISE_INSTANCE extern template class
#endif

EXERCISE_INSTANCE std::basic_string<char>;
EXERCISE_INSTANCE std::vector<std::string>;
EXERCISE_INSTANCE std::vector<double>;
EXERCISE_INSTANCE std::vector<float>;
EXERCISE_INSTANCE std::vector<int>;
EXERCISE_INSTANCE std::vector<exercise::Suspect>;
EXERCISE_INSTANCE std::vector<exercise::Mistake>;
EXERCISE_INSTANCE std::vector<exercise::Look>;
