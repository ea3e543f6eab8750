#include "gpu/cache.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "support/disk_cache.h"

namespace appy::gpu {

namespace {

/// What the content of a file begins with; then the code, and the compiler's log.
struct ImageHead {
  uint64_t code_bytes;
  int32_t architecture, version, ptx, reserved;
};

/// Everything that an image depends on, so that different inputs give different texts.
std::string key_of(const Source& source, int compute_capability, const std::string& compiler) {
  std::string out;
  add_to_key(out, compiler);
  add_to_key(out, std::to_string(compute_capability));
  add_to_key(out, std::to_string(source.options.size()));
  for (const std::string& option : source.options) add_to_key(out, option);
  add_to_key(out, std::to_string(source.headers.size()));
  for (const Header& header : source.headers) {
    add_to_key(out, header.name);
    add_to_key(out, header.text);
  }
  add_to_key(out, source.name);
  add_to_key(out, source.text);
  return out;
}

}  // namespace

std::optional<Image> load_image(const Source& source, int compute_capability, const std::string& compiler) {
  const std::optional<std::string> content = load_cached(cached::image, key_of(source, compute_capability, compiler));
  ImageHead head;
  if (!content || content->size() < sizeof head) return {};
  std::memcpy(&head, content->data(), sizeof head);
  const std::string_view rest = std::string_view(*content).substr(sizeof head);
  if (head.code_bytes > rest.size()) return {};
  Image image;
  image.code = rest.substr(0, head.code_bytes);
  image.log = rest.substr(head.code_bytes);
  image.architecture = head.architecture;
  image.version = head.version;
  image.ptx = head.ptx != 0;
  return image;
}

bool store_image(const Source& source, int compute_capability, const std::string& compiler, const Image& image) {
  const ImageHead head{image.code.size(), image.architecture, image.version, image.ptx, 0};
  std::string content(reinterpret_cast<const char*>(&head), sizeof head);
  content += image.code;
  content += image.log;
  return store_cached(cached::image, key_of(source, compute_capability, compiler), content);
}

Image cached_compile(const Source& source, int compute_capability, bool* hit) {
  const std::string compiler = compiler_identity();
  std::optional<Image> found;
  if (!compiler.empty()) found = load_image(source, compute_capability, compiler);
  if (hit) *hit = found.has_value();
  if (found) return std::move(*found);
  Image image = compile(source, compute_capability);
  if (!compiler.empty()) store_image(source, compute_capability, compiler, image);
  return image;
}

}  // namespace appy::gpu
