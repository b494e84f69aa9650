// Six rows over four devices do not come out even: each has two, and the last has none.
module @partitioned attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<6x2xf32> {mhlo.sharding = "{devices=[4,1]0,1,2,3}"}, %y: tensor<2x2xf32> {mhlo.sharding = "{replicated}"}) -> (tensor<6x2xf32> {mhlo.sharding = "{devices=[4,1]0,1,2,3}"}, tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %product = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<6x2xf32>, tensor<2x2xf32>) -> tensor<6x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%product init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x2xf32>, tensor<f32>) -> tensor<f32>
    return %product, %sum : tensor<6x2xf32>, tensor<f32>
  }
}
