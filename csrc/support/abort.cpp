#include "support/abort.h"

namespace appy {
namespace {

struct Row {
  std::string_view name, message, remedy;
};

constexpr Row rows[] = {
#define X(id, message, remedy) {#id, message, remedy},
#include "support/aborts.def"
#undef X
};

const Row& row(AbortId id) { return rows[static_cast<size_t>(id)]; }

}  // namespace

std::string_view abort_name(AbortId id) { return row(id).name; }
std::string_view abort_remedy(AbortId id) { return row(id).remedy; }

Abort::Abort(AbortId id, std::string detail, int line, std::string file)
    : id(id), detail(std::move(detail)), file(std::move(file)), line(line), what_(message()) {}

std::string Abort::message() const {
  std::string text(row(id).message);
  if (auto at = text.find("{}"); at != std::string::npos) text.replace(at, 2, detail);
  return text;
}

}  // namespace appy
