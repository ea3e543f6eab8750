#include "jit_cache.h"

#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "support/build_id.h"
#include "support/check.h"
#include "support/disk_cache.h"

namespace appy {

namespace {

constexpr ir::PrintOptions kAll{.locs = true, .remarks = true};

std::string key_of(const ir::Graph& graph, const passes::Options& options) {
  std::string key;
  add_to_key(key, build_id());
  add_to_key(key, options.target == passes::Target::device ? "device" : "cpu");
  add_to_key(key, options.last);
  add_to_key(key, std::to_string(options.disabled.size()));
  for (const std::string_view name : options.disabled) add_to_key(key, name);
  add_to_key(key, ir::print(graph, kAll));
  return key;
}

/// What changed it: names of passes in a line, then the graph.
struct Optimised {
  std::vector<std::string> passes;
  std::unique_ptr<ir::Graph> graph;
};

std::optional<Optimised> read(std::string_view content) {
  const size_t end = content.find('\n');
  if (end == std::string_view::npos) return {};
  Optimised out;
  std::istringstream names(std::string(content.substr(0, end)));
  for (std::string name; names >> name;) out.passes.push_back(name);
  try {
    out.graph = ir::parse(content.substr(end + 1));
  } catch (const ir::ParseError&) {
    return {};
  }
  return out;
}

}  // namespace

bool run_passes_once(std::unique_ptr<ir::Graph>& graph, const passes::Options& options) {
  if (build_id().empty()) {
    passes::run(*graph, options);
    return false;
  }
  const std::string key = key_of(*graph, options);
  if (const std::optional<std::string> content = load_cached(cached::graph, key)) {
    if (std::optional<Optimised> known = read(*content)) {
      graph = std::move(known->graph);
      for (const std::string& name : known->passes) options.on_change(name, *graph);
      return true;
    }
  }
  std::string content;
  passes::Options noting = options;
  noting.on_change = [&](std::string_view name, const ir::Graph& changed) {
    content += (content.empty() ? "" : " ") + std::string(name);
    options.on_change(name, changed);
  };
  passes::run(*graph, noting);
  content += '\n';
  content += ir::print(*graph, kAll);
  if (!store_cached(cached::graph, key, content)) return false;
  std::optional<Optimised> again = read(content);
#ifdef APPY_VERIFY_PASSES
  APPY_CHECK(again, "the text of an optimised graph cannot be read:\n" + content);
  APPY_CHECK(ir::print(*again->graph, kAll) == ir::print(*graph, kAll), "an optimised graph is not its text");
  const std::string faults = ir::verify(*again->graph);
  APPY_CHECK(faults.empty(), "the text of an optimised graph breaks it:\n" + faults);
#endif
  if (again) graph = std::move(again->graph);
  return false;
}

}  // namespace appy
