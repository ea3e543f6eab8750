#include "gpu/names.h"

#include <cctype>
#include <string_view>

namespace appy::gpu {

namespace {

/// Words of C++ and of prelude.cpp that a Python name may be.
bool is_reserved(const std::string& name) {
  static const std::unordered_set<std::string_view> all = {"asm",          "auto",
                                                           "bool",         "case",
                                                           "catch",        "char",
                                                           "const",        "default",
                                                           "delete",       "do",
                                                           "double",       "enum",
                                                           "explicit",     "export",
                                                           "extern",       "float",
                                                           "friend",       "goto",
                                                           "inline",       "int",
                                                           "long",         "mutable",
                                                           "namespace",    "new",
                                                           "operator",     "private",
                                                           "protected",    "public",
                                                           "register",     "requires",
                                                           "short",        "signed",
                                                           "sizeof",       "static",
                                                           "struct",       "switch",
                                                           "template",     "this",
                                                           "throw",        "typedef",
                                                           "typeid",       "typename",
                                                           "union",        "unsigned",
                                                           "using",        "virtual",
                                                           "void",         "volatile",
                                                           "char8_t",      "char16_t",
                                                           "char32_t",     "wchar_t",
                                                           "alignas",      "alignof",
                                                           "decltype",     "noexcept",
                                                           "nullptr",      "static_assert",
                                                           "thread_local", "constexpr",
                                                           "const_cast",   "dynamic_cast",
                                                           "static_cast",  "concept",
                                                           "i8",           "i16",
                                                           "i32",          "i64",
                                                           "u8",           "u16",
                                                           "u32",          "u64",
                                                           "f16",          "team",
                                                           "control",      "p",
                                                           "dead",         "info",
                                                           "plane",        "total",
                                                           "pymin",        "pymax",
                                                           "minimum",      "maximum",
                                                           "trips",        "quotient",
                                                           "fault",        "failed",
                                                           "shuffle",      "main",
                                                           "true",         "false",
                                                           "and",          "or",
                                                           "not",          "xor",
                                                           "if",           "else",
                                                           "for",          "while",
                                                           "break",        "continue",
                                                           "return",       "try",
                                                           "Team",         "Index",
                                                           "Control",      "Params",
                                                           "Plane",        "Unsigned",
                                                           "kBlock",       "kLanes",
                                                           "kColumns",     "kUnroll",
                                                           "abs",          "exp",
                                                           "log",          "sin",
                                                           "cos",          "tan",
                                                           "sqrt",         "pow",
                                                           "fma",          "min",
                                                           "max",          "floor",
                                                           "ceil",         "signbit",
                                                           "warpSize",     "threadIdx",
                                                           "blockIdx",     "blockDim",
                                                           "gridDim",      "linux",
                                                           "unix",         "j0",
                                                           "j1",           "jn",
                                                           "y0",           "y1",
                                                           "yn",           "gamma",
                                                           "index",        "time",
                                                           "clock",        "printf",
                                                           "SumTile",      "TensorTile",
                                                           "TileAt",       "widest",
                                                           "bf16",         "Two"};
  return all.count(name) > 0;
}

/// Without the number that the graph's text tells values of one name apart by.
std::string without_number(const std::string& name) {
  const size_t end = name.find_last_not_of("0123456789");
  return end != std::string::npos && name[end] == '.' ? name.substr(0, end) : name;
}

}  // namespace

bool Names::take(const std::string& name) { return !is_reserved(name) && taken_.insert(name).second; }

std::string Names::fresh(const std::string& base, const std::string& otherwise) {
  std::string name;
  for (char c : without_number(base)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  while (!name.empty() && (name[0] == '_' || std::isdigit(static_cast<unsigned char>(name[0])))) name.erase(0, 1);
  if (name.empty()) name = otherwise;
  // The texts' own names contain capitals, or underscores after what they are for.
  if (name == otherwise || name.find('_') != std::string::npos || !take(name)) {
    std::string numbered;
    do {
      numbered = name + "_" + std::to_string(next_[name]++);
    } while (!take(numbered));
    return numbered;
  }
  return name;
}

const std::string& Names::of(const ir::Value& v) {
  if (scope_) {
    if (auto found = scope_->find(&v); found != scope_->end()) return found->second;
  }
  if (auto found = names_.find(&v); found != names_.end()) return found->second;
  return (scope_ ? *scope_ : names_).emplace(&v, fresh(v.name)).first->second;
}

}  // namespace appy::gpu
