// The texts that generated kernels include, compiled by NVRTC without the toolkit's headers.
#pragma once

#include <string_view>

namespace appy::gpu {

/// "appy_ptx.h": what needs inline PTX or the driver's own memory spaces.
extern const std::string_view ptx_header;
/// "appy_device.h": Python's arithmetic, reductions, barriers and faults, in plain CUDA C++.
extern const std::string_view device_header;
/// "appy_update.h": updates of elements that several threads change at once.
extern const std::string_view update_header;
/// "appy_product.h": tiles of matrix products and of what has their form.
extern const std::string_view product_header;

}  // namespace appy::gpu
