// Regions that are one product of matrices and nothing else: a library may compute them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/blas.h"
#include "gpu/device.h"
#include "gpu/host_part.h"
#include "gpu/shape.h"
#include "ir/ir.h"

namespace appy::gpu {

struct WholeProduct {
  /// An operand's element at the beginning of the loops, and which of its dimensions runs along the rows of its matrix.
  struct Operand {
    const ir::Value* view = nullptr;
    int64_t first[2] = {0, 0};
    size_t rows = 0;
    bool made = false;    // by the region
    size_t position = 0;  // of its first argument word, or among the arrays that the region makes
    bool operator==(const Operand&) const = default;
  };
  /// A number, or a scalar parameter.
  struct Factor {
    double number = 1;
    ir::DType type = ir::DType::f64_;  // of the parameter
    std::optional<size_t> word;        // its argument word
  };
  /// What is stored: alpha times the sum, and beta times what was there.
  struct Update {
    Factor alpha, beta;
    /// Is what was there read?
    bool reads() const { return beta.word || beta.number != 0; }
  };
  Operand c, a, b;
  Update update;
  bool triangle = false;  // b is the transpose of a, and of c only what is not above the diagonal is meant
};

/// c = alpha a b + beta c, or a triangle of alpha a a^T + beta c, of float64 or float32, with sums that may be
/// reassociated; all else the host knows. `unaligned` are parameters whose elements may lie at any address: those are
/// not for a library.
std::optional<WholeProduct> whole_product_of(const ir::Graph&, const HostPart&, const std::vector<bool>& unaligned);

/// The element of the access in these loops, whose variables count each one of its dimensions; nothing where it is
/// none, or not for a library.
std::optional<WholeProduct::Operand> operand_of(const ir::Graph&, const HostPart&, const std::vector<bool>& unaligned,
                                                const ir::Op& access, const ir::Op& rows, const ir::Op& columns);
/// What the store keeps of the sum, in one of the ways to write that; nothing where it is something else.
std::optional<WholeProduct::Update> update_of(const ir::Graph&, const ir::Op& store, const ir::Value& sum);
/// Its factors; nothing where one is 0: what the library does not read then may hold infinities, whose products with 0
/// are NaN.
struct Factors {
  double alpha = 1, beta = 0;
};
std::optional<Factors> factors_of(const WholeProduct::Update&, ir::DType type, std::span<const ir::Word> arguments);
/// The operand of so many rows and columns as it lies in memory.
Matrix matrix_of(const WholeProduct::Operand&, int64_t rows, int64_t columns, const Sizes&,
                 std::span<const ir::Word> arguments, std::span<const ir::Word> made);

/// Computes it by cuBLAS, and names that; empty, and nothing was done, where there is none or it cannot. `arguments`
/// are the region's, `made` the addresses of the arrays that it makes. The device's context is current.
std::string multiply(const WholeProduct&, const Device&, Stream, const Sizes&, std::span<const ir::Word> arguments,
                     std::span<const ir::Word> made);

}  // namespace appy::gpu
