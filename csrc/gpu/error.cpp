#include "gpu/error.h"

#include <utility>

namespace appy::gpu {

Error::Error(ErrorKind kind, std::string what, std::string remedy)
    : kind_(kind),
      summary_(std::move(what)),
      remedy_(std::move(remedy)),
      message_(remedy_.empty() ? summary_ : summary_ + ". " + remedy_) {}

}  // namespace appy::gpu
