// Package xspace reads what a plugin's profiler gives, and writes which programs ran: a serialized XSpace, planes (a device, or the host's threads) of
// lines of events.
package xspace

import (
	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
)

// Event is something that took time on a line of a plane.
type Event struct {
	Plane    string `json:"plane"`
	LineID   int64  `json:"line_id"`
	Line     string `json:"line"`
	Name     string `json:"name"`
	StartNS  int64  `json:"start_ns"`    // since 1970, as the plugin's clock has it
	Duration int64  `json:"duration_ps"` // picoseconds
}

// Events gives all events of a serialized XSpace, plane by plane. InvalidArgument where the bytes are not one.
func Events(serialized []byte) ([]Event, error) {
	var events []Event
	err := wire.EachField(serialized, func(number protowire.Number, _ uint64, plane []byte) error {
		if number != 1 {
			return nil
		}
		of, err := planeEvents(plane)
		events = append(events, of...)
		return err
	})
	if err != nil {
		return nil, status.Annotate(err, "xspace.Events(): expected an XSpace, got other bytes")
	}
	return events, nil
}

func planeEvents(plane []byte) ([]Event, error) {
	name := ""
	names := map[int64]string{}
	var lines [][]byte
	err := wire.EachField(plane, func(number protowire.Number, _ uint64, content []byte) error {
		switch number {
		case 2:
			name = string(content)
		case 3:
			lines = append(lines, content) // names of its events may come later
		case 4:
			id, text, err := eventName(content)
			names[id] = text
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, line := range lines {
		of, err := lineEvents(line, name, names)
		if err != nil {
			return nil, err
		}
		events = append(events, of...)
	}
	return events, nil
}

// eventName reads an entry of a plane's event_metadata.
func eventName(entry []byte) (id int64, name string, err error) {
	display := ""
	err = wire.EachField(entry, func(number protowire.Number, value uint64, content []byte) error {
		switch number {
		case 1:
			id = int64(value)
		case 2:
			return wire.EachField(content, func(number protowire.Number, _ uint64, content []byte) error {
				switch number {
				case 2:
					name = string(content)
				case 4:
					display = string(content)
				}
				return nil
			})
		}
		return nil
	})
	if display != "" {
		name = display
	}
	return id, name, err
}

func lineEvents(line []byte, plane string, names map[int64]string) ([]Event, error) {
	head := Event{Plane: plane}
	var start int64
	var list [][]byte
	display := ""
	err := wire.EachField(line, func(number protowire.Number, value uint64, content []byte) error {
		switch number {
		case 1:
			head.LineID = int64(value)
		case 2:
			head.Line = string(content)
		case 11:
			display = string(content)
		case 3:
			start = int64(value)
		case 4:
			list = append(list, content) // the line's start may come later
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if display != "" {
		head.Line = display
	}
	events := make([]Event, 0, len(list))
	for _, one := range list {
		event, counted, offset := head, false, int64(0)
		err := wire.EachField(one, func(number protowire.Number, value uint64, _ []byte) error {
			switch number {
			case 1:
				event.Name = names[int64(value)]
			case 2:
				offset = int64(value)
			case 3:
				event.Duration = int64(value)
			case 5: // how often something happened, at no time of its own
				counted = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		event.StartNS = start + offset/1000
		if !counted {
			events = append(events, event)
		}
	}
	return events, nil
}
