#define EXERCISE_INSTANCE template class
#include "exercises/support/instances.hpp"
