// Which build of appy this is.
#pragma once

#include <string>

namespace appy {

/// The build id that the linker gave the library or program that this is in, as digits: other code, another id. Empty
/// where it has none.
const std::string& build_id();

}  // namespace appy
