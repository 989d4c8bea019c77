#pragma once

inline int buffer_of(int tile, int stages) { return tile % stages; }
inline int full_parity(int tile, int stages) { return tile / stages % 2; }
inline int empty_parity(int tile, int stages) { return tile < stages ? 1 : tile / stages % 2; }
