// Names in generated code: those of the source where they are identifiers, each once.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/ir.h"

namespace appy::gpu {

class Names {
 public:
  /// Names that hold in one copy of code that is written several times.
  using Scope = std::unordered_map<const ir::Value*, std::string>;

  /// A new identifier that begins with `base`, or `otherwise` where that gives none.
  std::string fresh(const std::string& base, const std::string& otherwise = "t");
  const std::string& of(const ir::Value&);
  /// Of a value that has one.
  const std::string& known(const ir::Value& v) const { return names_.at(&v); }
  /// From now on the value is called so.
  void bind(const ir::Value& v, std::string name) { (scope_ ? *scope_ : names_)[&v] = std::move(name); }
  /// Until the next call, what has no name yet gets one in this scope.
  void enter(Scope* scope) { scope_ = scope; }

 private:
  bool take(const std::string& name);

  Scope names_;
  Scope* scope_ = nullptr;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;
};

}  // namespace appy::gpu
