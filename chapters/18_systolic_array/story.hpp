// The story of the chapter on real input, in the order of the lesson. It checks each claim.
#pragma once

#include <iosfwd>

namespace ch18 {

// Returns false if a claim of the lesson is not true.
bool tell_story(std::ostream& out);

}  // namespace ch18
