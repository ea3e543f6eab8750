#include "support/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

namespace appy {

namespace {

constexpr char kMagic[8] = {'a', 'p', 'p', 'y', 'f', 'i', 'l', '2'};
/// Past this size of the folder the files that were not used for longest go, down to half of it.
constexpr int64_t kMostBytes = int64_t{512} << 20;
constexpr time_t kDay = 24 * 60 * 60;

/// What a file begins with; then the key, and the content.
struct Prologue {
  char magic[8];
  uint64_t checksum;  // of what follows it
  uint64_t key_bytes, content_bytes;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Two hashes that share no constant and no structure: 128 bits that a program's own texts do not make collide. Files
/// are compared in full when they are read, so that a collision is a miss and never a wrong kernel.
struct Hash {
  uint64_t multiplied = 0x9e3779b97f4a7c15;
  uint64_t folded = 0xc2b2ae3d27d4eb4f;

  explicit Hash(std::string_view text) {
    const char* at = text.data();
    size_t left = text.size();
    for (; left >= 8; at += 8, left -= 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      add(word);
    }
    uint64_t word = 0;
    std::memcpy(&word, at, left);
    add(word);
    add(text.size());
    multiplied ^= multiplied >> 32;
    multiplied *= 0xd6e8feb86659fd93;
    multiplied ^= multiplied >> 32;
  }
  void add(uint64_t word) {
    multiplied = std::rotl(multiplied ^ (word * 0x87c37b91114253d5), 31) * 0x4cf5ad432745937f;
    const auto product = static_cast<unsigned __int128>(folded ^ word) * 0xa0761d6478bd642f;
    folded = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ (word << 1 | word >> 63);
  }
};

std::string cache_folder() {
  const char* named = std::getenv("APPY_CACHE_DIR");
  if (named && *named) return std::string(named) + "/kernels";
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg && *xdg) return std::string(xdg) + "/appy/kernels";
  const char* home = std::getenv("HOME");
  if (home && *home) return std::string(home) + "/.cache/appy/kernels";
  passwd entry;
  passwd* found = nullptr;
  char texts[4096];
  if (getpwuid_r(geteuid(), &entry, texts, sizeof texts, &found) == 0 && found && entry.pw_dir)
    return std::string(entry.pw_dir) + "/.cache/appy/kernels";
  return {};
}

/// Is it ours alone to change?
std::string problem_of(const struct stat& info) {
  if (info.st_uid != geteuid()) return "it belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
  return {};
}

/// The folder, made where it is missing and `make` says so; -1 and a problem where it cannot be used, -1 without one
/// where it does not exist yet.
Descriptor open_folder(const std::string& folder, bool make, std::string& problem) {
  if (folder.empty()) {
    problem = "there is no home folder";
    return Descriptor(-1);
  }
  if (make) {
    for (size_t at = folder.find('/', 1);; at = folder.find('/', at + 1)) {
      const std::string part = folder.substr(0, at);
      if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR && at == std::string::npos) {
        problem = std::strerror(errno);
        return Descriptor(-1);
      }
      if (at == std::string::npos) break;
    }
  }
  Descriptor out(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!out) {
    if (errno != ENOENT) problem = std::strerror(errno);
    return out;
  }
  struct stat info;
  if (fstat(out.get(), &info) != 0) {
    problem = std::strerror(errno);
  } else {
    problem = problem_of(info);
  }
  return problem.empty() ? std::move(out) : Descriptor(-1);
}

bool read_all(int fd, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(fd, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

std::string serialised(const std::string& key, std::string_view content) {
  Prologue head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.key_bytes = key.size();
  head.content_bytes = content.size();
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  out += key;
  out += content;
  const size_t covered = offsetof(Prologue, checksum) + sizeof head.checksum;
  head.checksum = Hash(std::string_view(out).substr(covered)).folded;
  std::memcpy(out.data() + offsetof(Prologue, checksum), &head.checksum, sizeof head.checksum);
  return out;
}

std::optional<std::string> content_of(const std::string& text, const std::string& key) {
  Prologue head;
  if (text.size() < sizeof head) return {};
  std::memcpy(&head, text.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return {};
  // Each by itself first: a sum of two wrong lengths may wrap around.
  const size_t rest = text.size() - sizeof head;
  if (head.key_bytes > rest || head.content_bytes > rest || head.key_bytes + head.content_bytes != rest) return {};
  const std::string_view all = text;
  const size_t covered = offsetof(Prologue, checksum) + sizeof head.checksum;
  if (Hash(all.substr(covered)).folded != head.checksum) return {};
  if (all.substr(sizeof head, head.key_bytes) != key) return {};
  return std::string(all.substr(sizeof head + head.key_bytes));
}

struct Entry {
  std::string name;
  int64_t bytes;
  time_t used;
};

std::vector<Entry> entries(int folder) {
  std::vector<Entry> out;
  DIR* listing = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!listing) return out;
  while (const dirent* one = readdir(listing)) {
    struct stat info;
    if (fstatat(folder, one->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
      out.push_back({one->d_name, info.st_size, info.st_mtime});
  }
  closedir(listing);
  return out;
}

bool is_ours(std::string_view name) { return name.ends_with(cached::image) || name.ends_with(cached::graph); }

/// Takes out what was not used for longest where the folder is too large, and what interrupted processes left.
void prune(int folder) {
  std::vector<Entry> all = entries(folder);
  const time_t now = std::time(nullptr);
  int64_t bytes = 0;
  for (const Entry& one : all) bytes += one.bytes;
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  const int64_t aim = bytes > kMostBytes ? kMostBytes / 2 : kMostBytes;
  for (const Entry& one : all) {
    const bool left_over = one.name.ends_with(".tmp") && now - one.used > kDay;
    if (!left_over && (bytes <= aim || !is_ours(one.name))) continue;
    if (unlinkat(folder, one.name.c_str(), 0) == 0) bytes -= one.bytes;
  }
}

std::string file_name(std::string_view kind, const std::string& key) { return fingerprint(key) + std::string(kind); }

}  // namespace

std::string fingerprint(std::string_view text) {
  const Hash hash(text);
  char digits[40];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.multiplied),
                static_cast<unsigned long long>(hash.folded));
  return digits;
}

void add_to_key(std::string& key, std::string_view text) {
  key += std::to_string(text.size());
  key += ':';
  key += text;
  key += '\n';
}

std::optional<std::string> load_cached(std::string_view kind, const std::string& key) {
  std::string problem;
  const Descriptor folder = open_folder(cache_folder(), false, problem);
  if (!folder) return {};
  const std::string name = file_name(kind, key);
  const Descriptor file(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || !problem_of(info).empty()) return {};
  if (info.st_size > kMostBytes) return {};
  std::string text(static_cast<size_t>(info.st_size), '\0');
  if (!read_all(file.get(), text.data(), text.size())) return {};
  std::optional<std::string> out = content_of(text, key);
  // The time of its last change is that of its last use, to a day.
  if (out && std::time(nullptr) - info.st_mtime > kDay) futimens(file.get(), nullptr);
  return out;
}

bool store_cached(std::string_view kind, const std::string& key, std::string_view content) {
  std::string problem;
  const Descriptor folder = open_folder(cache_folder(), true, problem);
  if (!folder) return false;
  static std::atomic<int> count{0};
  const int number = count++;
  if (number == 0) prune(folder.get());
  const std::string temporary =
      std::to_string(getpid()) + "-" + std::to_string(number) + "-" + std::to_string(std::time(nullptr)) + ".tmp";
  const Descriptor file(
      openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return false;
  if (write_all(file.get(), serialised(key, content)) &&
      renameat(folder.get(), temporary.c_str(), folder.get(), file_name(kind, key).c_str()) == 0)
    return true;
  unlinkat(folder.get(), temporary.c_str(), 0);
  return false;
}

CacheState cache_state() {
  CacheState out;
  out.folder = cache_folder();
  const Descriptor folder = open_folder(out.folder, false, out.problem);
  if (!folder) return out;
  for (const Entry& one : entries(folder.get())) {
    if (!is_ours(one.name)) continue;
    ++out.files;
    out.bytes += one.bytes;
  }
  return out;
}

}  // namespace appy
