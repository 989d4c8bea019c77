#pragma once
// The functions of fiber.cpp that throw.cpp uses.

namespace fa::wasm {

/// Makes the main stack the one that continues. It receives `data` as from jump_fcontext.
void switch_to_main(void* data);

}  // namespace fa::wasm
