// Files that hold what was compiled, for the processes to come.
//
// A file is named by a 128-bit hash of a key, the text of everything that its content depends on; it holds the key as
// well, which is compared when it is read. Files are created 0600 under another name and renamed, in a folder that
// belongs to the user and that nobody else can write to; where it cannot be made so, nothing is read or written. Every
// failure means "not cached" and is no error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace appy {

/// What files are, as the ends of their names.
namespace cached {
inline constexpr std::string_view image = ".image";  // machine code of a device's kernel
inline constexpr std::string_view graph = ".graph";  // a graph that the passes are done with
}  // namespace cached

/// The content that was stored under this key; none where there is no such file, or it is damaged.
std::optional<std::string> load_cached(std::string_view kind, const std::string& key);
bool store_cached(std::string_view kind, const std::string& key, std::string_view content);

/// Appends a text so that no other texts appended give the same.
void add_to_key(std::string& key, std::string_view text);

/// 128 bits of a text as 32 digits.
std::string fingerprint(std::string_view text);

struct CacheState {
  std::string folder;
  std::string problem;  // why it is not used; empty where it is, or will be when the first file is written
  int files = 0;
  int64_t bytes = 0;
};

/// APPY_CACHE_DIR or the user's cache folder, as it is now.
CacheState cache_state();

}  // namespace appy
