package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Optimizers' steps over lists of parameters (`fused=True`). Counts of steps lie on the device, and a found_inf or
// grad_scale of gradient scaling is taken as it lies there, so that no step needs a read.

func init() {
	adam := func(name string, decoupled bool) *Row {
		return &Row{Name: name, Meta: func(c *Call) error { return metaFusedAdam(c, decoupled) }, LowerMany: lowerFusedAdam}
	}
	sgd := func(name string) *Row { return &Row{Name: name, Meta: metaFusedSGD, LowerMany: lowerFusedSGD} }
	adagrad := func(name string) *Row { return &Row{Name: name, Meta: metaFusedAdagrad, LowerMany: lowerFusedAdagrad} }
	register(
		adam("_fused_adam_", false), adam("_fused_adam_.tensor_lr", false),
		adam("_fused_adamw_", true), adam("_fused_adamw_.tensor_lr", true),
		sgd("_fused_sgd_"), sgd("_fused_sgd_.tensor_lr"),
		adagrad("_fused_adagrad_"), adagrad("_fused_adagrad_.tensor_lr"),
	)
}

// fusedLists gives the dtype in which a step's numbers are handed over, after checking that the lists in the
// first arguments are as long as that of the parameters.
func fusedLists(c *Call, lists int) (dtype.Dtype, error) {
	count := len(c.Args[0].Tensors)
	for i := 1; i < lists; i++ {
		if n := len(c.Args[i].Tensors); n != count {
			return 0, Errorf("%s(): expected lists of %d tensors, got %d in list %d", c.Name(), count, n, i)
		}
	}
	numbers := dtype.F32
	for i := range c.Args[0].Tensors {
		switch d := c.Args[0].Tensors[i].Dtype; {
		case !d.IsFloat():
			return 0, notImplemented(c.Name(), d)
		case d == dtype.F64:
			numbers = d
		}
	}
	return numbers, nil
}

// scalarNode is the value of a tensor with one element, which may be a number of the CPU.
func scalarNode(c *Call, a *Argument) *ir.Node {
	if a.Tag == TagTensor {
		return c.NodeOf(a)
	}
	return c.ScalarOf(a, dtype.F32)
}

// fusedParameter makes the node of one parameter's step and puts its results into the tensors, of which the gradient is the
// last: it is written only where it was scaled. numbers follow the tensors' values; what gradient scaling gives, arguments scale
// and found, comes after everything else, where fusedStep.scaling finds it again.
func fusedParameter(c *Call, into []*Argument, numbers []*ir.Node, flags []bool, scale, found int) error {
	for _, a := range into {
		c.Operand(c.NodeOf(a))
	}
	c.Operand(numbers...)
	for _, flag := range flags {
		c.AttrBool(flag)
	}
	for _, i := range []int{scale, found} {
		c.AttrBool(!c.IsNone(i))
		if !c.IsNone(i) {
			c.Operand(scalarNode(c, &c.Args[i]))
		}
	}
	if c.IsNone(scale) {
		into = into[:len(into)-1]
	}
	n := c.Many()
	for i, a := range into {
		if err := c.WriteTo(a, c.Element(n, i, a.Dtype, a.View.Sizes)); err != nil {
			return err
		}
	}
	return nil
}

// fusedStep is what the lowerings of a parameter's step share.
type fusedStep struct {
	elementwise
	l       *ir.Lowering
	compute dtype.Dtype
	next    int // operand
	olds    []hlo.Value
	// The gradient without its scale, which is a result, and where a gradient was not finite; empty where there is no scaling.
	unscaled, found hlo.Value
}

func newFusedStep(l *ir.Lowering) *fusedStep {
	return &fusedStep{elementwise: elementwise{l.B}, l: l, compute: l.In(0).Dtype().OpMath()}
}

// tensor takes the next operand, whose value changes in the step.
func (s *fusedStep) tensor() hlo.Value {
	x := s.l.In(s.next)
	s.next++
	s.olds = append(s.olds, x)
	return as(s.l.B, x, s.compute)
}

// scalar takes the next operand, one number.
func (s *fusedStep) scalar() hlo.Value {
	x := s.l.In(s.next)
	s.next++
	return as(s.l.B, s.Reshape(x, nil), s.compute)
}

// by multiplies a tensor by a scalar.
func (s *fusedStep) by(x, scalar hlo.Value) hlo.Value {
	return s.mul(x, s.BroadcastTo(scalar, x.Dims()))
}

// scaling takes what gradient scaling gives, and gives the gradient to go by: without its scale, and negative to maximize.
func (s *fusedStep) scaling(gradient hlo.Value, maximize bool) hlo.Value {
	if s.l.Bool() {
		gradient = s.div(gradient, s.BroadcastTo(s.scalar(), gradient.Dims()))
		s.unscaled = gradient
	}
	if s.l.Bool() {
		found := s.scalar()
		s.found = s.equal(found, s.one(found))
	}
	if maximize {
		gradient = s.neg(gradient)
	}
	return gradient
}

// results are the new values in the order in which tensor took the old ones, which stay where a gradient was not finite.
func (s *fusedStep) results(news ...hlo.Value) []hlo.Value {
	if s.unscaled.Valid() {
		news = append(news, s.unscaled)
	}
	for i, x := range news {
		old := s.olds[i]
		x = as(s.l.B, x, old.Dtype())
		if s.found.Valid() {
			x = s.Select(s.BroadcastTo(s.found, old.Dims()), old, x)
		}
		news[i] = x
	}
	return news
}

// metaFusedAdam: (parameters, gradients, averages, averages of squares, greatest of those, steps; lr, beta1, beta2, weight_decay,
// eps, amsgrad, maximize, grad_scale, found_inf).
func metaFusedAdam(c *Call, decoupled bool) error {
	amsgrad := c.Bool(11)
	if !amsgrad {
		c.Args[4].Tensors = c.Args[0].Tensors // not looked at
	}
	numbers, err := fusedLists(c, 6)
	if err != nil || len(c.Args[0].Tensors) == 0 {
		return err
	}
	lr := c.Value(6, numbers)
	// What is lost between 1 and a beta close to it in 32 bits is worked out here.
	beta1, beta2 := c.Float(7, 0), c.Float(8, 0)
	var rest []*ir.Node
	for _, v := range []float64{1 - beta1, beta2, 1 - beta2, math.Log(beta1), math.Log(beta2), c.Float(9, 0), c.Float(10, 0)} {
		rest = append(rest, c.FloatNode(v, numbers))
	}
	for i := range c.Args[0].Tensors {
		parameter, gradient := &c.Args[0].Tensors[i], &c.Args[1].Tensors[i]
		into := []*Argument{parameter, &c.Args[2].Tensors[i], &c.Args[3].Tensors[i]}
		if amsgrad {
			into = append(into, &c.Args[4].Tensors[i])
		}
		given := append([]*ir.Node{scalarNode(c, &c.Args[5].Tensors[i]), lr}, rest...)
		flags := []bool{amsgrad, decoupled, c.Bool(12), c.Float(9, 0) != 0}
		if err := fusedParameter(c, append(into, gradient), given, flags, 13, 14); err != nil {
			return err
		}
	}
	return nil
}

func lowerFusedAdam(l *ir.Lowering) []hlo.Value {
	s := newFusedStep(l)
	amsgrad, decoupled, maximize, decays := l.Bool(), l.Bool(), l.Bool(), l.Bool()
	parameter, average, square := s.tensor(), s.tensor(), s.tensor()
	var greatest hlo.Value
	if amsgrad {
		greatest = s.tensor()
	}
	gradient := s.tensor()
	step, lr, new1, beta2, new2 := s.scalar(), s.scalar(), s.scalar(), s.scalar(), s.scalar()
	log1, log2, decay, eps := s.scalar(), s.scalar(), s.scalar(), s.scalar()
	gradient = s.scaling(gradient, maximize)
	switch {
	case decays && decoupled:
		parameter = s.by(parameter, s.sub(s.one(lr), s.mul(lr, decay)))
	case decays:
		gradient = s.add(gradient, s.by(parameter, decay))
	}
	average = s.add(average, s.by(s.sub(gradient, average), new1))
	square = s.add(s.by(square, beta2), s.by(s.mul(gradient, gradient), new2))
	// 1 - beta^step
	correction := func(log hlo.Value) hlo.Value { return s.neg(s.expm1(s.mul(step, log))) }
	spread := square
	if amsgrad {
		greatest = s.max(greatest, square)
		spread = greatest
	}
	root := s.div(s.sqrt(spread), s.BroadcastTo(s.sqrt(correction(log2)), spread.Dims()))
	change := s.div(average, s.add(root, s.BroadcastTo(eps, root.Dims())))
	parameter = s.sub(parameter, s.by(change, s.div(lr, correction(log1))))

	news := []hlo.Value{parameter, average, square}
	if amsgrad {
		news = append(news, greatest)
	}
	return s.results(news...)
}

// metaFusedSGD: (parameters, gradients, momenta; weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
// grad_scale, found_inf).
func metaFusedSGD(c *Call) error {
	moves := len(c.Args[2].Tensors) > 0
	lists := 2
	if moves {
		lists = 3
	}
	numbers, err := fusedLists(c, lists)
	if err != nil || len(c.Args[0].Tensors) == 0 {
		return err
	}
	var rest []*ir.Node
	for _, v := range []float64{c.Float(3, 0), c.Float(4, 0), 1 - c.Float(6, 0)} {
		rest = append(rest, c.FloatNode(v, numbers))
	}
	rest = append(rest, c.Value(5, numbers))
	flags := []bool{moves, c.Float(3, 0) != 0, c.Bool(7), c.Bool(8), c.Bool(9)}
	for i := range c.Args[0].Tensors {
		parameter, gradient := &c.Args[0].Tensors[i], &c.Args[1].Tensors[i]
		into := []*Argument{parameter}
		if moves {
			into = append(into, &c.Args[2].Tensors[i])
		}
		if err := fusedParameter(c, append(into, gradient), rest, flags, 10, 11); err != nil {
			return err
		}
	}
	return nil
}

func lowerFusedSGD(l *ir.Lowering) []hlo.Value {
	s := newFusedStep(l)
	moves, decays, nesterov, maximize, first := l.Bool(), l.Bool(), l.Bool(), l.Bool(), l.Bool()
	parameter := s.tensor()
	var velocity hlo.Value
	if moves {
		velocity = s.tensor()
		if first { // what memory held before says nothing
			s.olds[1] = s.zero(s.olds[1])
		}
	}
	gradient := s.tensor()
	decay, momentum, kept, lr := s.scalar(), s.scalar(), s.scalar(), s.scalar()
	gradient = s.scaling(gradient, maximize)
	if decays {
		gradient = s.add(gradient, s.by(parameter, decay))
	}
	news := []hlo.Value{parameter}
	if moves {
		if first {
			velocity = gradient
		} else {
			velocity = s.add(s.by(velocity, momentum), s.by(gradient, kept))
		}
		if nesterov {
			gradient = s.add(gradient, s.by(velocity, momentum))
		} else {
			gradient = velocity
		}
		news = append(news, velocity)
	}
	news[0] = s.sub(parameter, s.by(gradient, lr))
	return s.results(news...)
}

// metaFusedAdagrad: (parameters, gradients, sums, steps; lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf).
func metaFusedAdagrad(c *Call) error {
	numbers, err := fusedLists(c, 4)
	if err != nil || len(c.Args[0].Tensors) == 0 {
		return err
	}
	lr := c.Value(4, numbers)
	var rest []*ir.Node
	for _, i := range []int{5, 6, 7} {
		rest = append(rest, c.FloatNode(c.Float(i, 0), numbers))
	}
	for i := range c.Args[0].Tensors {
		into := []*Argument{&c.Args[0].Tensors[i], &c.Args[2].Tensors[i], &c.Args[1].Tensors[i]}
		given := append([]*ir.Node{scalarNode(c, &c.Args[3].Tensors[i]), lr}, rest...)
		if err := fusedParameter(c, into, given, []bool{c.Bool(8), c.Float(6, 0) != 0}, 9, 10); err != nil {
			return err
		}
	}
	return nil
}

func lowerFusedAdagrad(l *ir.Lowering) []hlo.Value {
	s := newFusedStep(l)
	maximize, decays := l.Bool(), l.Bool()
	parameter, sum, gradient := s.tensor(), s.tensor(), s.tensor()
	step, lr, slowing, decay, eps := s.scalar(), s.scalar(), s.scalar(), s.scalar(), s.scalar()
	gradient = s.scaling(gradient, maximize)
	if decays {
		gradient = s.add(gradient, s.by(parameter, decay))
	}
	sum = s.add(sum, s.mul(gradient, gradient))
	rate := s.div(lr, s.addNumber(s.mul(s.addNumber(step, -1), slowing), 1))
	root := s.sqrt(sum)
	parameter = s.sub(parameter, s.div(s.by(gradient, rate), s.add(root, s.BroadcastTo(eps, root.Dims()))))
	news := []hlo.Value{parameter, sum}
	return s.results(news...)
}
