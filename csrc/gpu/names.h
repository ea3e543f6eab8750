// Names in generated code: those of the source where they are identifiers, each once.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/ir.h"

namespace appy::gpu {

class Names {
 public:
  Names();
  /// A new identifier that begins with `base`, or `otherwise` where that gives none.
  std::string fresh(const std::string& base, const std::string& otherwise = "t");
  const std::string& of(const ir::Value&);
  /// From now on the value is called so.
  void bind(const ir::Value& v, std::string name) { names_[&v] = std::move(name); }

 private:
  std::map<const ir::Value*, std::string> names_;
  std::set<std::string> taken_;
  std::map<std::string, int> next_;
};

}  // namespace appy::gpu
