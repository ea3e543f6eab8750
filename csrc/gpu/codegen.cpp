// The frame of a kernel: its parameters, its arrays, its results.
#include "gpu/codegen.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "gpu/expressions.h"
#include "gpu/writer.h"
#include "passes/loops.h"
#include "support/abort.h"

namespace appy::gpu {

using ir::Op;
using ir::Opcode;
using ir::Value;

Writer::Writer(const ir::Graph& graph, const CodegenOptions& options) : graph_(graph), options_(options) {
  int ordinal = 0;
  ir::walk(*graph.body, [&](const Op& op) {
    if (op.code == Opcode::check_) {
      ordinals_[&op] = ordinal++;
      code_.checks |= !options.made.count(&op);
    }
    if (op.loop && op.loop->tiles) tiled_.emplace(&op, tiled_.size());
    if (op.code == Opcode::store_ || op.code == Opcode::atomic_) written_[op.view()] = true;
  });
}

void Writer::refuse(const Op& op, const std::string& what) const {
  const ir::Loc& at = graph_.locs[op.loc];
  throw Abort(AbortId::device_, what, at.line, at.file);
}

void Writer::find_arrays(const ir::Block& block, ArrayUse::Owner owner) {
  for (const Op* op = block.first; op; op = op->next) {
    if (op->code == Opcode::alloc_) {
      array_of_[op] = code_.arrays.size();
      code_.arrays.push_back({op, owner});
    }
    ArrayUse::Owner inner = owner;
    const bool by_workers = op->mapping == ir::Mapping::workers || op->mapping == ir::Mapping::columns;
    if (by_workers && inner == ArrayUse::Owner::region)
      inner = passes::is_one_block(*op) ? ArrayUse::Owner::block : ArrayUse::Owner::worker;
    if (op->mapping == ir::Mapping::threads || op->mapping == ir::Mapping::lanes) inner = ArrayUse::Owner::thread;
    for (const ir::Block* nested : op->blocks) find_arrays(*nested, inner);
  }
}

std::string Writer::view_parameter(const Value& v, size_t word) {
  const std::string type = memory_type_of(v.type.dtype), name = names_.of(v);
  const bool read_only = !written_.count(&v) && !graph_.may_alias;
  std::string text = "  " + std::string(read_only ? "const " : "") + type + "* const " +
                     (graph_.may_alias ? "" : "__restrict__ ") + name + " = (" + type + "*)p.w[" +
                     std::to_string(word) + "];\n";
  const auto rank = static_cast<size_t>(v.type.rank);
  for (size_t d = 0; d < rank; ++d) {
    text += "  const i64 " + name + "_n" + std::to_string(d) + " = (i64)p.w[" + std::to_string(word + 1 + d) + "];\n";
  }
  if (v.type.layout != ir::Layout::strided && v.type.layout != ir::Layout::inner) return text;
  for (size_t d = 0; d < rank; ++d) {
    text += "  const i64 " + name + "_s" + std::to_string(d) + " = (i64)p.w[" + std::to_string(word + 1 + rank + d) +
            "];\n";
  }
  return text;
}

std::string Writer::parameters() {
  std::string text;
  size_t word = 0;
  for (const Value* v : graph_.body->args) {
    if (v->type.is_view()) {
      text += view_parameter(*v, word);
      word += ir::words_of(v->type);
      continue;
    }
    const std::string type = type_of(v->type.dtype), from = "p.w[" + std::to_string(word++) + "]";
    std::string value = "(" + type + ")" + from;
    if (v->type.dtype == ir::DType::f64_) value = "bits_double(" + from + ")";
    if (v->type.dtype == ir::DType::f32_) value = "bits_float((u32)" + from + ")";
    text += "  const " + type + " " + names_.of(*v) + " = " + value + ";\n";
  }
  text += "  const Control control = {(u64*)p.w[" + std::to_string(word) + "], (i64*)p.w[" + std::to_string(word + 1) +
          "], (u64*)p.w[" + std::to_string(word + 2) + "], (unsigned char*)p.w[" + std::to_string(word + 3) +
          "], kPartial};\n";
  code_.words = word + 4 + 2 * code_.arrays.size();
  if (options_.shape.given >= 0) {
    code_.given_words = word + 4;
    code_.words += 3;
  }
  return text;
}

size_t Writer::result_words() const {
  size_t words = graph_.body->last->operands.size();
  for (const Op* alloc : options_.told) words += alloc->operands.size();
  return words;
}

void Writer::results(const Op& yield) {
  bool any = false;
  for (size_t k = 0; k < yield.operands.size(); ++k) any |= options_.results[k];
  if (!any && options_.told.empty()) return;
  open("if (team.thread == 0)");
  for (size_t k = 0; k < yield.operands.size(); ++k) {
    if (options_.results[k]) {
      put("control.results[" + std::to_string(k) + "] = word_of(" + argument(*yield.operands[k]) + ");");
    }
  }
  size_t word = yield.operands.size();
  for (const Op* alloc : options_.told) {
    for (const Value* extent : alloc->operands) {
      put("control.results[" + std::to_string(word++) + "] = word_of(" + argument(*extent) + ");");
    }
  }
  close();
}

/// Of two launches the first one ends before the nest whose sums are given, and the second one begins there. What
/// follows from scalars both of them compute.
void Writer::before_given(const Op& op, const Op*& nest) {
  const std::string first = "p.w[" + std::to_string(code_.given_words + 2) + "]";
  if (&op == nest) {
    if (code_.before_given) put("if (" + first + ") return;");
    nest = nullptr;
    for (const Op* at = options_.shape.stored ? op.next : &op; at; at = at->next) {
      code_.behind_given |= !ir::is_pure(at->code) && at->code != Opcode::alloc_ && at->code != Opcode::yield_ &&
                            at->code != Opcode::barrier_ && !options_.made.count(at);
    }
    if (!options_.shape.stored) statement(op);
    return;
  }
  if (op.code == Opcode::alloc_) return statement(op);
  const Op* next = op.next;
  while (next != nest && (ir::is_pure(next->code) || next->code == Opcode::alloc_)) next = next->next;
  if (op.code == Opcode::barrier_ && next == nest) return;
  code_.before_given = true;
  open("if (" + first + ")");
  statement(op);
  close();
}

/// Of the blocks that a multiprocessor has, so that they get no more registers than that leaves.
std::string Writer::least_resident() const {
  const int block = options_.shape.block;
  if (block > 256 || (!code_.tiles && code_.marches.empty())) return "";
  return ", " + std::to_string(code_.tiles && code_.in_turn ? 2 : 512 / block);
}

KernelCode Writer::write() {
  code_.entry = "appy_";
  for (char c : graph_.name) code_.entry += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  find_arrays(*graph_.body, ArrayUse::Owner::region);
  const std::string head = parameters();
  find_flat();
  find_pieces();
  const Op* given = nullptr;  // until it has been written
  for (const auto& [nest, number] : tiled_) {
    if (static_cast<int>(number) == options_.shape.given) given = nest;
  }
  for (const Op* op = graph_.body->first; op; op = op->next) {
    if (op->code == Opcode::yield_) {
      results(*op);
    } else if (!options_.made.count(op)) {
      given && !ir::is_pure(op->code) ? before_given(*op, given) : statement(*op);
    }
  }
  const std::string block = std::to_string(options_.shape.block), lanes = std::to_string(options_.shape.lanes);
  code_.text =
      (options_.delays.empty() ? "" : "#define APPY_DELAYS " + options_.delays + "ull\n") + "#include \"" +
      std::string(code_.tiles ? "appy_product.h" : "appy_device.h") + "\"\n" +
      (code_.updates ? "#include \"appy_update.h\"\n" : "") + "\nconstexpr int kBlock = " + block +
      ", kLanes = " + lanes + ", kColumns = " + std::to_string(options_.shape.columns) +
      ", kUnroll = " + std::to_string(options_.shape.unroll) + ", kPartial = " + std::to_string(code_.partial_bytes) +
      (code_.tiles ? ", kMultiprocessors = " + std::to_string(options_.multiprocessors) : "") + ";\ntypedef " +
      (options_.shape.narrow ? "i32" : "i64") + " Index;\n\nstruct Params {\n  u64 w[" + std::to_string(code_.words) +
      "];\n};\n\n" + structs_ + "extern \"C\" __global__ void __launch_bounds__(kBlock" + least_resident() + ") " +
      code_.entry + "(const Params p) {\n" + head + pairs_parameter() + pieces_parameter() +
      "  Team team = team_of<kBlock, kLanes>();\n" + (code_.leaves ? "  team.looked = (u32)appy_clock();\n" : "") +
      body_ + "}\n";
  return std::move(code_);
}

KernelCode generate(const ir::Graph& graph, const CodegenOptions& options) { return Writer(graph, options).write(); }

namespace {

/// Calls `each` with every line, without its end.
template <class F>
void for_each_line(std::string_view text, F&& each) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    each(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

constexpr std::string_view directive = "#line ";

bool is_comment(std::string_view line) {
  const size_t at = line.find_first_not_of(' ');
  return at != std::string_view::npos && line.substr(at).starts_with("// ");
}

}  // namespace

std::string with_each_line(const std::string& text) {
  std::string out, again;
  bool said = false;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with(directive)) {
      again = line.substr(0, line.find(' ', directive.size()));  // the file stays
      said = true;
    } else if (!again.empty() && !is_comment(line)) {
      if (!said) out.append(again).append("\n");
      said = false;
    }
    out.append(line).append("\n");
  });
  return out;
}

std::string without_lines(const std::string& text) {
  std::string out;
  for_each_line(text, [&](std::string_view line) {
    if (!line.starts_with(directive) && !is_comment(line)) out.append(line).append("\n");
  });
  return out;
}

}  // namespace appy::gpu
