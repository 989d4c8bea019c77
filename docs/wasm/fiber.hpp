#pragma once
// What throw.cpp needs of fiber.cpp.

namespace fa::wasm {

/// Makes the main stack the one that continues; it gets `data` as if by jump_fcontext.
void switch_to_main(void* data);

}  // namespace fa::wasm
