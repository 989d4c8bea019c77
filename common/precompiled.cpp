// Exists so that its target can precompile the headers that the tests share.
