// A signed product of any width and 9 bits out of ECP5's carry cells, about a third of what Booth's
// recoding takes. A CCU2C's lookup tables make the bits of two rows of the product and add them at
// once; their carry is right because a table's lowest four entries, which the cell takes for the
// carry where both bits are equal, are those of one of the rows.

module ridgeline_rows #(parameter WIDTH = 2, parameter [15:0] TABLE = 0)
    (input [WIDTH-1:0] a, b, c, d, input carry, output [WIDTH-1:0] sum);
  wire [WIDTH/2:0] chain;
  assign chain[0] = carry;
  genvar i;
  generate for (i = 0; i < WIDTH / 2; i = i + 1) begin : cells
    CCU2C #(.INIT0(TABLE), .INIT1(TABLE), .INJECT1_0("NO"), .INJECT1_1("NO")) cell_ (
      .CIN(chain[i]), .COUT(chain[i+1]), .S0(sum[2*i]), .S1(sum[2*i+1]),
      .A0(a[2*i]), .B0(b[2*i]), .C0(c[2*i]), .D0(d[2*i]),
      .A1(a[2*i+1]), .B1(b[2*i+1]), .C1(c[2*i+1]), .D1(d[2*i+1]));
  end endgenerate
endmodule

(* techmap_celltype = "$mul" *)
module ridgeline_soft_multiplier (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;

  wire _TECHMAP_FAIL_ = !A_SIGNED || !B_SIGNED || B_WIDTH != 9 || A_WIDTH < 2;

  // Two rows: A + 2 A, with its sign; an even number of bits.
  localparam WIDE = A_WIDTH + 2 + A_WIDTH % 2;
  localparam LONG = A_WIDTH + 9 + (A_WIDTH + 9) % 2;
  wire [WIDE-1:0] low = {{WIDE-A_WIDTH{A[A_WIDTH-1]}}, A};
  wire [WIDE-1:0] high = {low[WIDE-2:0], 1'b0};
  wire [WIDE-1:0] first, second, third, fourth;

  // (a and b) + (c and d): rows 1 and 2, 3 and 4, 5 and 6.
  ridgeline_rows #(.WIDTH(WIDE), .TABLE(16'h7888)) rows_1 (
    .a(low), .b({WIDE{B[1]}}), .c(high), .d({WIDE{B[2]}}), .carry(1'b0), .sum(first));
  ridgeline_rows #(.WIDTH(WIDE), .TABLE(16'h7888)) rows_3 (
    .a(low), .b({WIDE{B[3]}}), .c(high), .d({WIDE{B[4]}}), .carry(1'b0), .sum(second));
  ridgeline_rows #(.WIDTH(WIDE), .TABLE(16'h7888)) rows_5 (
    .a(low), .b({WIDE{B[5]}}), .c(high), .d({WIDE{B[6]}}), .carry(1'b0), .sum(third));
  // (a and b) + (not c and d): row 7, and row 8, which counts negative: ~A + 1, the 1 as a bit below
  // and a carry beside it.
  ridgeline_rows #(.WIDTH(WIDE), .TABLE(16'h8788)) rows_7 (
    .a(low), .b({WIDE{B[7]}}), .c(high), .d({WIDE{B[8]}}), .carry(B[8]), .sum(fourth));

  wire signed [LONG-1:0] lower = $signed(first) + $signed({second, 2'b00});
  wire signed [LONG-1:0] upper = $signed(third) + $signed({fourth, 2'b00});
  wire signed [LONG-1:0] most = lower + (upper <<< 4);
  // a + (c and d): all of them, one place up, and row 0.
  wire [LONG-1:0] product;
  ridgeline_rows #(.WIDTH(LONG), .TABLE(16'h5AAA)) rows_0 (
    .a({most[LONG-2:0], 1'b0}), .b({LONG{1'b0}}), .c({{LONG-A_WIDTH{A[A_WIDTH-1]}}, A}),
    .d({LONG{B[0]}}), .carry(1'b0), .sum(product));
  assign Y = {{(Y_WIDTH > LONG ? Y_WIDTH - LONG : 1){product[LONG-1]}}, product};
endmodule
