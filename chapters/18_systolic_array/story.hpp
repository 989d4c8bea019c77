// The chapter on real input, in the order of the lesson; each claim is checked on the way.
#pragma once

#include <iosfwd>

namespace ch18 {

// False if something is not what the lesson says.
bool tell_story(std::ostream& out);

}  // namespace ch18
